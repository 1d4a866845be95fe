-- A suspension takes a signal; one that was added as taken is not written again. Expects the primary key of signals.
-- ?1 execution, ?2 number, ?3 the suspension
update signals
set taken = ?3
where execution = ?1
  and number = ?2
  and taken is not ?3
