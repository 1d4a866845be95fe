-- Deletes a key; given a subject, only if the key stands for it.
-- Index: the primary key of keys.
-- Parameters: ?1 namespace, ?2 scope, ?3 key, ?4 subject or null
delete from keys
where namespace = ?1
  and scope = ?2
  and key = ?3
  and (?4 is null or subject = ?4)
