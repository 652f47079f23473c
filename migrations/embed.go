// SPDX-License-Identifier: Apache-2.0

// Package migrations holds the database schema: one set of SQL files for
// SQLite and PostgreSQL. {{.uuid}}, {{.ts}}, {{.json}} and {{.bytes}} stand
// for the types that differ.
//
// A file must be harmless to run again: the engine marks a migration only
// after it ran, and a process can die in between. A release must run before
// and after its own migration, so change in two steps: expand, then contract.
package migrations

import "embed"

// Release counts the releases that changed the schema. If older binaries cannot run on the schema
// after a migration, the migration sets min_release in the table schema_release to the first
// release that can. That is never the newest release, because the release before it must still run.
const Release = 2

// Files are the migrations.
//
//go:embed *.sql
var Files embed.FS
