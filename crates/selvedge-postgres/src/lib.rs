//! The Postgres store: any number of servers on one database.
