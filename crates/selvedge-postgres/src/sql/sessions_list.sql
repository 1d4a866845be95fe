select {session}
from sessions
where ($1::integer is null or namespace = $1)
order by id
