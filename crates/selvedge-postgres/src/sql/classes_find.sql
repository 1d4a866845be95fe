-- Index: the unique one of classes.
select id, namespace, lane, kind, capabilities
from classes
where namespace = $1
  and lane = $2
  and kind = $3
  and capabilities = $4
