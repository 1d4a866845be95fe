-- The log in one partition per day (UTC), so that days that leave its window are dropped as a whole. Entries of a day
-- without a partition go to the default partition.

alter table log rename to log_carried;
alter table log_carried drop constraint log_pkey;
alter sequence log_number_seq rename to log_number_carried_seq;

create sequence log_number_seq cache 1;
select setval('log_number_seq', last_value, is_called) from log_number_carried_seq;
alter table log_carried alter column number drop identity;

-- One row per commit. The number is drawn when all locks of the transaction are held.
create table log (
  number bigint not null default nextval('log_number_seq'),
  at timestamptz not null,
  body bytea not null
) partition by range (at);
alter table log alter column body set storage external;
alter sequence log_number_seq owned by log.number;
create index log_number on log (number);

create table log_default partition of log default;
-- Entries that leave the window are found by their time.
create index log_default_at on log_default (at);

-- The highest number that was dropped from the log; 0 if none was.
create table log_window (
  single boolean primary key default true,
  dropped bigint not null default 0,
  constraint there_is_one check (single)
);
insert into log_window default values;

-- The existing log becomes one partition, which ends with the day of its last entry and is named after that day.
do $$
declare
  last date := (select max(at) at time zone 'UTC' from log_carried);
  name text := 'log_' || to_char(last, 'YYYYMMDD');
begin
  if last is null then
    drop table log_carried;
    return;
  end if;
  execute format('alter table log_carried rename to %I', name);
  execute format(
    'alter table log attach partition %I for values from (minvalue) to (%L)',
    name, to_char(last + 1, 'YYYY-MM-DD') || ' 00:00+00'
  );
end
$$;
