-- Gives a deleted namespace a name that no caller can choose, so that its name can be used again.
-- Index: the unique index on namespaces.name.
-- Parameters: ?1 name
update namespaces
set name = name || ' (deleted ' || id || ')' || char(127)
where name = ?1
  and deletion = 'done'
