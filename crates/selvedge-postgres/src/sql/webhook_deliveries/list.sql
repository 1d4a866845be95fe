-- Returns a page of the deliveries of a webhook before a number, newest first; bodies if the last parameter is true.
-- Locks: none. Index: webhook_deliveries_pkey.
select {delivery}, case when $4 then body else '' end
from webhook_deliveries
where webhook = $1
  and number < $2
order by number desc
limit $3
