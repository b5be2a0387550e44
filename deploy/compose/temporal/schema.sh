#!/bin/sh
# Makes and updates the tables of the Temporal server. Does no harm a second time.
# The database's address and password are in SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD and SQL_PLUGIN; TABLES, where
# the server's own description of its tables is, if that is not where the image has it.
set -eu

tables="${TABLES:-/etc/temporal/schema/postgresql/v12}"

temporal-sql-tool --db temporal create
temporal-sql-tool --db temporal setup-schema -v 0.0
temporal-sql-tool --db temporal update-schema -d "$tables/temporal/versioned"

temporal-sql-tool --db temporal_visibility create
temporal-sql-tool --db temporal_visibility setup-schema -v 0.0
temporal-sql-tool --db temporal_visibility update-schema -d "$tables/visibility/versioned"
