-- Returns a page of the refused rows of a namespace, newest first, without their requests: those with numbers smaller than the given one.
-- Locks: none. Index: inbox_refused.
select {inbox}, '' as body
from inbox
where refused_at is not null
  and namespace = $1
  and number < $2
order by number desc
limit $3
