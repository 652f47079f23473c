// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
)

// nobody takes a backup that is only checked.
type nobody struct{}

func (nobody) table(bunstore.Table) error { return nil }
func (nobody) row([]byte) error           { return nil }
func (nobody) end() error                 { return nil }

// batch is how many rows, and about how many bytes, go into one statement.
const (
	batchRows  = 500
	batchBytes = 1 << 20
)

// filling writes a backup into a database.
type filling struct {
	ctx     context.Context
	loading *bunstore.Loading
	from    string // the version that made it
	into    bunstore.Table
	rows    [][]byte
	bytes   int
}

func (f *filling) table(t bunstore.Table) error {
	if err := f.end(); err != nil {
		return err
	}
	f.into = t
	if err := f.loading.Fits(t); err != nil {
		return cli.WithFix(fmt.Errorf("the backup of tenantry %s does not fit: %w", f.from, err), "restore it with that version, and upgrade then")
	}
	return nil
}

func (f *filling) row(row []byte) error {
	f.rows, f.bytes = append(f.rows, row), f.bytes+len(row)
	if len(f.rows) < batchRows && f.bytes < batchBytes {
		return nil
	}
	return f.end()
}

func (f *filling) end() error {
	err := f.loading.Insert(f.ctx, f.into, f.rows)
	f.rows, f.bytes = nil, 0
	return err
}
