-- Marks a signal as taken by a suspension, unless it already is.
-- Index: the primary key of signals.
-- Parameters: ?1 execution, ?2 number, ?3 suspension
update signals
set taken = ?3
where execution = ?1
  and number = ?2
  and taken is not ?3
