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

// Release counts the releases that changed the schema. A migration that older
// binaries cannot live with raises min_release in schema_release to the first
// release that can; because of expand and contract that is never the newest.
const Release = 2

// Files are the migrations.
//
//go:embed *.sql
var Files embed.FS
