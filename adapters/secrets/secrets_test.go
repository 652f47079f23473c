// SPDX-License-Identifier: Apache-2.0

package secrets_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/core/secret"
)

const testSecret = "canary-9f31c0b7-Passw0rd"

func openSealer(t *testing.T, path string) *secrets.Sealer {
	t.Helper()
	sealer, err := secrets.OpenKeyset(path, secrets.CreateMissing)
	if err != nil {
		t.Fatal(err)
	}
	return sealer
}

func TestOpenReturnsWhatWasSealed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyset.json")
	sealer, reopened := openSealer(t, path), openSealer(t, path)
	rapid.Check(t, func(t *rapid.T) {
		plain, associatedData := rapid.String().Draw(t, "plain"), rapid.String().Draw(t, "associated data")
		sealed, err := sealer.Seal(secret.New(plain), associatedData)
		if err != nil {
			t.Fatal(err)
		}
		got, err := reopened.Open(sealed, associatedData)
		if err != nil || got.Reveal() != plain {
			t.Fatalf("the opened text is different from the sealed text (%v)", err)
		}
	})
}

func TestOpenRefusesChangedOrForeignData(t *testing.T) {
	dir := t.TempDir()
	sealer := openSealer(t, filepath.Join(dir, "a.json"))
	sealed, err := sealer.Seal(secret.New(testSecret), "flow/1")
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(sealed)
	changed[len(changed)-1] ^= 1
	for _, tc := range []struct {
		name           string
		sealer         *secrets.Sealer
		sealed         []byte
		associatedData string
	}{
		{"different associated data", sealer, sealed, "flow/2"},
		{"no associated data", sealer, sealed, ""},
		{"a different keyset", openSealer(t, filepath.Join(dir, "b.json")), sealed, "flow/1"},
		{"one bit changed", sealer, changed, "flow/1"},
		{"truncated by one byte", sealer, sealed[:len(sealed)-1], "flow/1"},
		{"truncated to the key id", sealer, sealed[:5], "flow/1"},
		{"empty", sealer, nil, "flow/1"},
		{"something appended", sealer, append(bytes.Clone(sealed), 0), "flow/1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.sealer.Open(tc.sealed, tc.associatedData)
			if err == nil || !got.Empty() {
				t.Fatalf("Open returned the error %v, want an error and no secret", err)
			}
			if strings.Contains(err.Error(), testSecret) {
				t.Fatal("the error contains the secret")
			}
		})
	}
}

func TestSealedDataHidesTheSecret(t *testing.T) {
	sealer := openSealer(t, filepath.Join(t.TempDir(), "keyset.json"))
	sealed, err := sealer.Seal(secret.New(testSecret), "flow/1")
	if err != nil {
		t.Fatal(err)
	}
	sealedAgain, err := sealer.Seal(secret.New(testSecret), "flow/1")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(sealed, sealedAgain) {
		t.Error("sealing a secret twice returned the same data, want different data")
	}
	for _, form := range []string{testSecret, hex.EncodeToString([]byte(testSecret)), base64.StdEncoding.EncodeToString([]byte(testSecret))} {
		if bytes.Contains(sealed, []byte(form)) {
			t.Errorf("the sealed data contains the secret as %s", form)
		}
	}
}

func TestKeysetFileIsPrivateAndCreatedOnlyOnRequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "keyset.json")
	if _, err := secrets.OpenKeyset(path, secrets.RequireExisting); err == nil {
		t.Fatal("OpenKeyset returned no error for a missing keyset")
	}
	if _, err := os.Stat(path); err == nil {
		t.Fatal("OpenKeyset created a keyset although RequireExisting was passed")
	}
	openSealer(t, path)
	for created, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		info, err := os.Stat(created)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, want %v (%v)", created, info.Mode().Perm(), want, err)
		}
	}
	remaining, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(remaining) != 1 {
		t.Errorf("the folder of the keyset has the files %v (%v), want only the keyset", remaining, err)
	}
}

func TestUnsafeKeysetFileIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name      string
		content   string
		mode      os.FileMode
		wantError string
	}{
		{"others may read", "", 0o604, "chmod 600"},
		{"group may write", "", 0o620, "chmod 600"},
		{"cut off", "{\"primaryKeyId\":17", 0o600, "not a keyset"},
		{"empty", " ", 0o600, "not a keyset"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keyset.json")
			openSealer(t, path)
			if tc.content != "" {
				if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(path, tc.mode); err != nil {
				t.Fatal(err)
			}
			if _, err := secrets.OpenKeyset(path, secrets.CreateMissing); err == nil || !strings.Contains(err.Error(), tc.wantError) {
				t.Fatalf("got %v, want an error with %q", err, tc.wantError)
			}
		})
	}
}

func TestConcurrentStartsCreateOneKeyset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyset.json")
	sealers := make([]*secrets.Sealer, 8)
	var starts sync.WaitGroup
	for i := range sealers {
		starts.Go(func() {
			sealer, err := secrets.OpenKeyset(path, secrets.CreateMissing)
			if err != nil {
				t.Error(err)
			}
			sealers[i] = sealer
		})
	}
	starts.Wait()
	if t.Failed() {
		return
	}
	sealed, err := sealers[0].Seal(secret.New(testSecret), "p")
	if err != nil {
		t.Fatal(err)
	}
	for _, sealer := range sealers {
		if _, err := sealer.Open(sealed, "p"); err != nil {
			t.Fatal("the starts created different keysets")
		}
	}
}
