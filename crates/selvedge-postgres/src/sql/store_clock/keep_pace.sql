-- Notes the time of the store and the clock, so that the time goes on from there; it does so for at most {clock_lead} after the
-- last note. Does nothing if the last note is new and the clock has not stepped back since.
-- Locks: the row. Index: store_clock_pkey.
update store_clock
set clock_at = clock_timestamp(),
  store_at = {carried_on}
where single
  and {carried_on} > clock_timestamp()
  and clock_timestamp() not between clock_at and clock_at + interval '{clock_note_interval}'
