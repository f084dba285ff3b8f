"""Who belongs to a fleet: its file, its roster, its certificates, and changes of them."""
