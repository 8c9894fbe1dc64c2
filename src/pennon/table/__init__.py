"""Operations inside of one table, on its address or an opened dataset; this package knows no catalog."""
