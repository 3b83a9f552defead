"""The database: tables, migrations, one file per aggregate, and the loop that runs them."""
