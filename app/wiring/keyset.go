// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
)

// OpenKeyset opens the keyset. If create is set and the file does not exist, it creates a keyset.
// It fails instead if the database has encrypted values, because a new keyset would hide the loss
// of the earlier keyset until the first decryption fails.
func OpenKeyset(ctx context.Context, c settings.Config, store *bunstore.Store, create bool) (*secrets.Sealer, error) {
	if _, err := os.Stat(c.KeysetFile); create && errors.Is(err, fs.ErrNotExist) {
		keysetLost, err := store.HasSealedValues(ctx)
		if err != nil {
			return nil, DatabaseError(err)
		}
		if keysetLost {
			return nil, cli.WithFix(
				fmt.Errorf("there is no keyset at %s, and the database holds values that a keyset encrypted", c.KeysetFile),
				"restore the keyset from its backup, or correct keyset_file; to continue without the encrypted values: `tenantry keyset create`",
			)
		}
	}
	sealer, err := secrets.OpenKeyset(c.KeysetFile, create)
	if err != nil {
		return nil, KeysetError(c.KeysetFile, err)
	}
	return sealer, nil
}

// FixMissingKeys is the fix for a keyset that lacks keys that encrypted values in the database.
const FixMissingKeys = "correct keyset_file, or restore the keyset from its backup; if the keys are lost, the DNS connections, integrations and webhooks must be added again; stored answers and connect flows expire by themselves"

// CheckSealedValues returns an error when a keyset lacks a key that encrypted a value in the
// database. file is the keyset file, content is its content, and prefixes are the result of
// database.SealedPrefixes.
func CheckSealedValues(file string, content []byte, prefixes map[string][][]byte) error {
	var keys, tables []string
	for table, sealed := range prefixes {
		missing, err := secrets.MissingKeys(content, sealed)
		if err != nil {
			return fmt.Errorf("%s %w", file, err)
		}
		if len(missing) > 0 {
			keys, tables = append(keys, missing...), append(tables, table)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	slices.Sort(keys)
	slices.Sort(tables)
	return fmt.Errorf("%s lacks keys that encrypted values in the database (keys %s; tables %s)",
		file, strings.Join(slices.Compact(keys), ", "), strings.Join(tables, ", "))
}

// keyCheckTimeout bounds how long the service's start waits for the check of the keys. A check of a
// million values takes about a second.
const keyCheckTimeout = 5 * time.Second

// WarnOfMissingKeys logs a warning when the keyset lacks a key that encrypted a value in the
// database. The service starts nevertheless, because requests that need no value of the missing key
// work.
func (s *Service) WarnOfMissingKeys(ctx context.Context, file string) {
	ctx, cancel := context.WithTimeout(ctx, keyCheckTimeout)
	defer cancel()
	content, err := secrets.ReadKeyset(file)
	var prefixes map[string][][]byte
	if err == nil {
		prefixes, err = s.Store.SealedPrefixes(ctx)
	}
	if err != nil {
		s.Log.WarnContext(ctx, "the keyset could not be compared with the encrypted values", "error", err, "fix", "`tenantry doctor` compares them too")
		return
	}
	if err := CheckSealedValues(file, content, prefixes); err != nil {
		s.Log.WarnContext(ctx, "requests that need a value that the keyset cannot decrypt will fail", "error", err, "fix", FixMissingKeys)
	}
}

// KeysetError wraps an error of creating, reading or rotating a keyset file, and adds the fix.
func KeysetError(file string, err error) error {
	switch {
	case errors.Is(err, fs.ErrExist):
		return cli.WithFix(fmt.Errorf("%s exists already", file), "stored secrets are encrypted with this keyset: `tenantry keyset rotate` adds a key to it")
	case errors.Is(err, fs.ErrNotExist):
		return cli.WithFix(fmt.Errorf("there is no keyset at %s", file), "correct the setting keyset_file; `tenantry keyset create` creates the first keyset")
	case errors.Is(err, secrets.ErrStaged):
		return cli.WithFix(err, "copy the file to every replica, then run `tenantry keyset rotate` to encrypt with the staged key")
	case errors.Is(err, fs.ErrPermission):
		return cli.WithFix(fmt.Errorf("the keyset cannot be accessed: %w", err), cli.FixFileAccess)
	default:
		return cli.WithFix(err, "correct the file that the setting keyset_file names")
	}
}
