-- Records the end of an attempt that began earlier.
-- Index: the primary key of projected_attempts.
update projected_attempts
set ended_at = ?3,
  outcome = ?4,
  error_message = ?5,
  error_class = ?6
where execution = ?1
  and attempt = ?2
