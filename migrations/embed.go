// SPDX-License-Identifier: Apache-2.0

// Package migrations contains the database schema: one set of SQL files for SQLite and PostgreSQL.
// {{.uuid}}, {{.ts}}, {{.json}} and {{.bytes}} are placeholders for the types that differ between
// the two databases.
//
// It must be safe to run a file twice: the process can be killed after a migration ran and before
// the migration is marked as applied. A release must work before and after its own migration.
// Change the schema in two releases: the first adds the new part, and the second removes the old
// part.
package migrations

import "embed"

// Release is the schema release of this binary. It increases by one with each release that changes
// the schema. The column min_release of the table schema_release holds the oldest schema release
// that can use the database. A migration increases min_release if it excludes older releases.
// min_release is never the newest release, because the release before the newest must still work.
const Release = 2

// Files are the migrations.
//
//go:embed *.sql
var Files embed.FS
