// SPDX-License-Identifier: Apache-2.0

// Package migrations contains the database schema: one set of SQL files for SQLite and PostgreSQL.
// {{.uuid}}, {{.ts}}, {{.json}} and {{.bytes}} are placeholders for the types that differ.
//
// It must be safe to run a file twice, because the engine marks a migration as applied only after
// it ran, and the process can be killed in between. A release must work before and after its own
// migration. Change the schema in two releases: the first adds the new part, and the second removes
// the old one.
package migrations

import "embed"

// Release counts the releases that changed the schema. If some older releases cannot use the schema
// after a migration, the migration sets min_release in the table schema_release to the first
// release that can. That is never the newest release, because the release before it must still
// work.
const Release = 2

// Files are the migrations.
//
//go:embed *.sql
var Files embed.FS
