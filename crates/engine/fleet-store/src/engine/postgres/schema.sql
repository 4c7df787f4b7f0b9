create schema if not exists haft_fleet;

create table if not exists haft_fleet.ledger (
    number bigint primary key,
    at bigint not null,
    id text not null unique,
    commands bytea not null
);

create table if not exists haft_fleet.snapshot (
    one boolean primary key default true check (one),
    number bigint not null,
    bytes bytea not null
);

create table if not exists haft_fleet.log_head (
    run text primary key,
    epoch bigint not null,
    lines bigint not null,
    lines_at_own bigint not null,
    stalled int not null
);

create table if not exists haft_fleet.log_line (
    run text not null,
    number bigint not null,
    epoch bigint not null,
    line bytea not null,
    primary key (run, number)
);

create table if not exists haft_fleet.control (
    run text not null,
    number bigint not null,
    id text not null,
    body text not null,
    primary key (run, number),
    unique (run, id)
);

create table if not exists haft_fleet.blob_part (
    tenant text not null,
    hash text not null,
    part int not null,
    bytes bytea not null,
    primary key (tenant, hash, part)
);

create table if not exists haft_fleet.blob (
    tenant text not null,
    hash text not null,
    parts int not null,
    primary key (tenant, hash)
);

-- Writes an entry of the ledger, once. Entries are written one after another: what
-- can be read has no gaps. Called again with the same id it changes nothing.
create or replace function haft_fleet.write_entry(entry_id text, entry_commands bytea) returns bigint
language plpgsql as $$
declare
    entry_number bigint;
begin
    perform pg_advisory_xact_lock(5746281);
    select number into entry_number from haft_fleet.ledger where id = entry_id;
    if found then
        return entry_number;
    end if;
    select coalesce(max(number), 0) + 1 into entry_number from haft_fleet.ledger;
    insert into haft_fleet.ledger (number, at, id, commands)
    values (entry_number, (extract(epoch from clock_timestamp()) * 1000)::bigint, entry_id, entry_commands);
    return entry_number;
end
$$;

-- Makes an epoch the owner of a log; false when a higher one is.
create or replace function haft_fleet.own_log(log_run text, new_epoch bigint) returns boolean
language plpgsql as $$
begin
    insert into haft_fleet.log_head (run, epoch, lines, lines_at_own, stalled)
    values (log_run, 0, 0, 0, 0) on conflict (run) do nothing;
    perform 1 from haft_fleet.log_head where run = log_run for update;
    update haft_fleet.log_head
    set epoch = new_epoch,
        stalled = case when lines = lines_at_own then stalled + 1 else 0 end,
        lines_at_own = lines
    where run = log_run and epoch < new_epoch;
    return (select epoch = new_epoch from haft_fleet.log_head where run = log_run);
end
$$;

-- Writes lines at a place. Returns 'done', 'stale' (a higher epoch owns the log) or
-- 'elsewhere' (the log goes on at another line). Lines that are there are there.
create or replace function haft_fleet.append_log(log_run text, by_epoch bigint, at_line bigint, new_lines bytea[])
returns text language plpgsql as $$
declare
    head haft_fleet.log_head;
    there bytea[];
begin
    insert into haft_fleet.log_head (run, epoch, lines, lines_at_own, stalled)
    values (log_run, by_epoch, 0, 0, 0) on conflict (run) do nothing;
    select * into head from haft_fleet.log_head where run = log_run for update;
    if head.epoch > by_epoch then
        return 'stale';
    end if;
    if head.lines <> at_line then
        select array_agg(line order by number) into there from haft_fleet.log_line
        where run = log_run and epoch = by_epoch
            and number >= at_line and number < at_line + cardinality(new_lines);
        return case when there = new_lines then 'done' else 'elsewhere' end;
    end if;
    insert into haft_fleet.log_line (run, number, epoch, line)
    select log_run, at_line + place - 1, by_epoch, line from unnest(new_lines) with ordinality as new(line, place);
    update haft_fleet.log_head set epoch = by_epoch, lines = at_line + cardinality(new_lines) where run = log_run;
    return 'done';
end
$$;

-- Says something to a run, once; returns its number.
create or replace function haft_fleet.say(to_run text, entry_id text, entry_body text) returns bigint
language plpgsql as $$
declare
    entry_number bigint;
begin
    perform pg_advisory_xact_lock(5746282, hashtext(to_run));
    select number into entry_number from haft_fleet.control where run = to_run and id = entry_id;
    if found then
        return entry_number;
    end if;
    select count(*) into entry_number from haft_fleet.control where run = to_run;
    insert into haft_fleet.control (run, number, id, body) values (to_run, entry_number, entry_id, entry_body);
    return entry_number;
end
$$;

-- Keeps the newest snapshot, and of the entries before it only some.
create or replace function haft_fleet.keep_snapshot(new_number bigint, new_bytes bytea, entries_before bigint)
returns void language plpgsql as $$
begin
    insert into haft_fleet.snapshot (number, bytes) values (new_number, new_bytes)
    on conflict (one) do update set number = excluded.number, bytes = excluded.bytes
    where haft_fleet.snapshot.number < excluded.number;
    delete from haft_fleet.ledger where number < entries_before;
end
$$;
