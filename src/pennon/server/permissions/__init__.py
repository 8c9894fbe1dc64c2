"""Who may do what: principals, rights and the guard that checks them."""
