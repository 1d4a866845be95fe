-- Returns a page of the API keys, newest first: those with ids smaller than the given one.
-- Index: the primary key of api_keys.
-- Parameters: ?1 id, ?2 limit
select {api_key}
from api_keys
where id < ?1
order by id desc
limit ?2
