-- Executions wait for signals, times and children: state 4 is suspended, and `suspension` is what such a one waits for,
-- encoded. It comes after the payloads, which costs nothing: where it is not null there is no result before it, and
-- inputs in the row are short.
--
-- What is due of an execution has two kinds more: 5 a suspension times out, 6 a waitpoint expires. The outbox has one:
-- 5 tell a parent that children of it have ended.

alter table executions
add column suspension blob
constraint suspended_has_suspension check ((state = 4) = (suspension is not null));

-- A flow with suspended members is not over.
alter table flows
drop column live;

alter table flows
add column suspended integer not null default 0;

alter table flows
add column live integer not null
generated always as (blocked + waiting + delayed + active + suspended) virtual;
