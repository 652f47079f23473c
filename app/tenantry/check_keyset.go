// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/cli"
)

func (e *examination) keyset(ctx context.Context) finding {
	path := e.config.KeysetFile
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return e.noKeyset(ctx, path)
	case err != nil:
		return broken(cli.FixUser+", or correct keyset_file", "the keyset cannot be read: %s", cli.OneLine(err))
	}
	if _, err := secrets.OpenKeyset(path, false); err != nil {
		fix := "put the keyset back from its backup: " + path
		switch {
		case errors.Is(err, fs.ErrPermission):
			fix = cli.FixUser
		case info.Mode().Perm()&0o027 != 0:
			fix = "chmod 600 " + path
		}
		return broken(fix, "%s", cli.OneLine(err))
	}
	return fine("%s opens (mode %#o)", path, info.Mode().Perm())
}

// noKeyset tells a first start from a loss: serve would make a new keyset in
// both cases, and with it nothing that was sealed before opens again.
func (e *examination) noKeyset(ctx context.Context, path string) finding {
	if db, err := e.open(); err == nil {
		if m, err := db.Migrations(ctx); err == nil && m.InUse {
			return broken("put it back from its backup before the service starts and makes a new one: "+path,
				"there is no keyset, but the database is in use: what was sealed with it cannot be opened")
		}
	}
	return doubtful("run `tenantry keyset create`, or let the first start of `tenantry serve` make it", "there is no keyset yet: %s", path)
}
