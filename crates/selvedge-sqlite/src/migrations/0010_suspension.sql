-- Executions wait for signals, times and children: state 4 is suspended, and `suspension` is the encoded condition. It
-- comes after the payloads, which costs nothing: a suspended execution has no result, and inputs in the row are short.
--
-- An execution has two more due kinds: 5 timeout of a suspension, 6 expiry of a waitpoint. The outbox has one more: 5
-- updates a parent whose children have ended.

alter table executions
add column suspension blob
constraint suspended_has_suspension check ((state = 4) = (suspension is not null));

-- Suspended members are live.
alter table flows
drop column live;

alter table flows
add column suspended integer not null default 0;

alter table flows
add column live integer not null
generated always as (blocked + waiting + delayed + active + suspended) virtual;
