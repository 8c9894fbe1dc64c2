"""Operations that change which tables exist; each chooses the kind of table once."""
