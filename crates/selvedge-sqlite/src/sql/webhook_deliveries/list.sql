-- Returns a page of the deliveries of a webhook before a number, newest first.
-- Index: the primary key of webhook_deliveries.
-- Parameters: ?1 webhook, ?2 number, ?3 limit, ?4 true for bodies
select {delivery}, case when ?4 then body else x'' end
from webhook_deliveries
where webhook = ?1
  and number < ?2
order by number desc
limit ?3
