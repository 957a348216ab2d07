"""Recognises a store, turns an empty database into a store, and brings a store of the previous version up to date."""

from sqlalchemy import Connection, String, cast, insert, inspect, select, update
from sqlalchemy.exc import IntegrityError

from elegans.errors import StoreError, brief
from elegans.store.schema import FORMAT, FORMER_VERSION, INDEXES, META, TABLES, VERSION, checks


def version_of(connection: Connection, name: str) -> str | None:
    """Return a store's format version, or None if the database is empty.

    Args:
        connection: to the database.
        name: the store's name in messages.

    Raises:
        StoreError: the database holds something else, or a store of a version that cannot be read.
    """
    inspector = inspect(connection)
    tables = inspector.get_table_names()
    if not tables:
        return None
    facts: dict[str, str] = {}
    if META.name in tables and {"key", "value"} <= {column["name"] for column in inspector.get_columns(META.name)}:
        query = select(META.c.key, META.c.value).where(cast(META.c.key, String).in_(("format", "version")))
        facts = {str(key): str(value) for key, value in connection.execute(query)}
    if facts.get("format") != FORMAT:
        names = brief(", ".join(sorted(tables)[:3]))
        hint = "; a schema of its own is asked for by ?schema=NAME" if connection.dialect.name == "postgresql" else ""
        raise StoreError(f"a store must be made by elegans: {name} holds other tables ({names}){hint}")
    version = facts.get("version")
    if version not in (VERSION, FORMER_VERSION):
        raise StoreError(
            f"a store must have format version {VERSION}, which this version of elegans reads: {name} has format "
            f"version {brief(str(version), 40)}"
        )
    if connection.dialect.name == "sqlite":
        _refuse_forged(connection, name, strict=version == VERSION)
    return version


def _refuse_forged(connection: Connection, name: str, strict: bool) -> None:
    """Refuse tables that elegans cannot have made: a view may be endless, a trigger may change what is written."""
    triggers = connection.exec_driver_sql("SELECT 'trigger', name FROM sqlite_master WHERE type = 'trigger'").all()
    listed = connection.exec_driver_sql("SELECT name, type, strict FROM pragma_table_list WHERE schema = 'main'")
    kinds = {table: (kind, is_strict) for table, kind, is_strict in listed if table in TABLES.tables}
    for kind, what in [*triggers, *((kind, table) for table, (kind, _) in kinds.items() if kind != "table")]:
        raise StoreError(f"a store must have only plain tables: {name} has the {kind} {brief(str(what))!r}")
    for table in TABLES.tables if strict else ():
        if not kinds.get(table, (None, False))[1]:
            raise StoreError(f"a store must hold the tables of its format: {name}: {table}")


def make(connection: Connection, name: str) -> None:
    """Turn an empty database into a store, or bring a store of the previous version up to date, in one transaction."""
    version = version_of(connection, name)  # another process may have made it one in the meantime
    if version is None:
        _create(connection)
        connection.execute(insert(META), [{"key": "format", "value": FORMAT}, {"key": "version", "value": VERSION}])
    elif version == FORMER_VERSION:
        try:
            _migrate(connection)
        except IntegrityError as error:
            rule = f"a store of format version {FORMER_VERSION} can be brought up to date only if it is undamaged"
            hint = f"{brief(str(error.orig))}; elegans check --repair moves damaged rows aside"
            raise StoreError(f"{rule}: {name} ({hint})") from error


def _create(connection: Connection) -> None:
    TABLES.create_all(connection)
    # as text: an Index with these conditions would import the drivers' dialects whenever a store is opened
    partial = connection.dialect.name in ("sqlite", "postgresql")
    for name, column in INDEXES.items():
        where = f" WHERE {column} IS NOT NULL" if partial else ""
        connection.exec_driver_sql(f"CREATE INDEX {name} ON trials ({column}){where}")


def _migrate(connection: Connection) -> None:
    if connection.dialect.name != "sqlite":
        for table in TABLES.sorted_tables:
            for check in checks(table):
                named = f"CONSTRAINT {check.name} " if check.name else ""
                connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD {named}CHECK ({check.sqltext})")
    else:
        for index in INDEXES:
            connection.exec_driver_sql(f"DROP INDEX IF EXISTS {index}")
        for table in TABLES.sorted_tables:
            connection.exec_driver_sql(f"ALTER TABLE {table.name} RENAME TO former_{table.name}")
        _create(connection)
        for table in TABLES.sorted_tables:
            columns = ", ".join(column.name for column in table.columns)
            copy = f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM former_{table.name}"
            connection.exec_driver_sql(copy)
            connection.exec_driver_sql(f"DROP TABLE former_{table.name}")
    connection.execute(update(META).where(META.c.key == "version").values(value=VERSION))
