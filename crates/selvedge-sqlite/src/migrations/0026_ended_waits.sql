-- Closes the waitpoints of executions that have ended (state 10 and above), which earlier builds left open: expired (2), without
-- an event.
update waitpoints
set state = 2
where state = 0
  and exists (select 1 from executions where executions.id = waitpoints.execution and executions.state >= 10);
