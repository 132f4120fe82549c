-- The two roles. Run by a superuser (or a role with CREATEROLE that may grant on the database) in the hub's database,
-- before the migrations; safe to run again. Passwords and pg_hba.conf are the operator's.
--   carillon_owner  owns both schemas, runs the migrations, publishes tables
--   carillon_hub    what `serve` connects as: it may execute the hub functions and nothing else
do $$
begin
    begin
        create role carillon_owner login;
    exception when duplicate_object then null;
    end;
    begin
        create role carillon_hub login;
    exception when duplicate_object then null;
    end;
    execute format('grant connect, create on database %I to carillon_owner', current_database());
    execute format('grant connect on database %I to carillon_hub', current_database());
end
$$;
