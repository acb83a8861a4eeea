"""One writer of the ledger at a time, in whichever process: roll-ups are read before written."""

import sqlalchemy as sa

# Any number will do, as long as all gateways on one database use the same: "forewrd" in ASCII.
_LOCK = 0x666F7265777264


def be_the_only_writer(connection: sa.Connection) -> None:
    """Wait until no other transaction writes to the ledger, and keep others out until this ends.

    SQLite lets one transaction write at a time anyway, but only from its first write on: reading
    before that would see what another is about to change. PostgreSQL is asked for a lock that it
    gives back at the end of the transaction, however that comes.

    Raises:
        sqlalchemy.exc.OperationalError: the other writer took longer than the database waits.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        return
    driver = connection.connection.dbapi_connection
    if driver is not None and not driver.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
