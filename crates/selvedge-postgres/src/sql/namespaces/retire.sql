-- Gives a deleted namespace a name that no caller can choose, so that its name can be used again.
-- Locks: the row. Index: namespaces_name_key.
update namespaces
set name = name || ' (deleted ' || id || ')' || chr(127)
where name = $1
  and deletion = 'done'
