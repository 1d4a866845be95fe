select id, name
from namespaces
order by id
