-- Rules of medicines that were stopped before, as care.is_silent says: devices are told, as of any other change. By itself, for
-- it reads all rules: readers need not wait.
update care.reminder_rule as r set silent = true
where (r.schedule_id is null or r.stack_id is not null) and case
    when r.product_id is not null then exists (
            select from care.product as p
            where p.id = r.product_id and (p.user_id = r.user_id or p.user_id is null) and p.archived_at is not null)
        or exists (select from care.listed as l where l.user_id = r.user_id and l.kind = 'medication' and l.id = r.product_id)
            and not exists (
                select from care.product as p
                where p.id = r.product_id and (p.user_id = r.user_id or p.user_id is null and (
                    exists (select from care.schedule as s where s.user_id = r.user_id and s.product_id = p.id)
                    or exists (select from care.stack as k join care.stack_item as i on i.stack_id = k.id
                               where k.user_id = r.user_id and i.product_id = p.id))))
    when exists (select from care.stack as k where k.id = r.stack_id and k.user_id = r.user_id)
        then not exists (
            select from care.stack_item as i join care.product as p on p.id = i.product_id
            where i.stack_id = r.stack_id and p.archived_at is null)
    else exists (select from care.listed as l where l.user_id = r.user_id and l.kind = 'stack' and l.id = r.stack_id) end;
