"""Operations that change which tables exist. Each chooses the kind of table once, and hands over to its package."""
