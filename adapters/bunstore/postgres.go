// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

const defaultPostgresConns = 20

// The driver's own error could quote the password.
var errUnreadableURL = errors.New("open database: the postgres URL cannot be read")

// connectPostgres connects nobody yet. bun writes the values into the SQL
// text, so prepared statements would never be used twice, and the text must be
// read by the rules that bun quotes by.
func connectPostgres(url string, o Options) (*bun.DB, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errUnreadableURL
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	config.RuntimeParams["standard_conforming_strings"] = "on"
	config.RuntimeParams["client_encoding"] = "UTF8"
	config.RuntimeParams["timezone"] = "UTC"
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "tenantry"
	}
	db := stdlib.OpenDB(*config)
	most := max(2, cmp.Or(o.MaxConns, defaultPostgresConns))
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return bun.NewDB(db, pgdialect.New()), nil
}
