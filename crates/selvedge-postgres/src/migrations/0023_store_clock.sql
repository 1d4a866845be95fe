-- The time of the store goes on while the clock of the database is behind it: clock_at is a time of the clock, store_at the time
-- of the store at that moment. Statements use whichever is later, the clock or the time that follows from this row.
create table store_clock (
  single boolean primary key default true check (single),
  clock_at timestamptz not null,
  store_at timestamptz not null
);

-- The clock is not behind.
insert into store_clock (clock_at, store_at)
values (clock_timestamp(), 'epoch');
