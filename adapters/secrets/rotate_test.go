// SPDX-License-Identifier: Apache-2.0

package secrets_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/core/secret"
)

func createKeyset(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keyset.json")
	if _, err := secrets.CreateKeyset(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func sealSecret(t *testing.T, sealer *secrets.Sealer) []byte {
	t.Helper()
	sealed, err := sealer.Seal(secret.New(testSecret), "p")
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// keyPrefix returns the first five bytes of a sealed secret, which identify its key.
func keyPrefix(sealed []byte) []byte { return sealed[:5] }

func requireOpens(t *testing.T, sealer *secrets.Sealer, sealed []byte) {
	t.Helper()
	if got, err := sealer.Open(sealed, "p"); err != nil || got.Reveal() != testSecret {
		t.Fatalf("the sealed secret does not open: %v", err)
	}
}

// keyStatuses returns the statuses of the keys, oldest first.
func keyStatuses(t *testing.T, keys []secrets.Key, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var statuses []string
	for _, k := range keys {
		statuses = append(statuses, string(k.Status))
	}
	return strings.Join(statuses, " ")
}

func TestCreateKeysetDoesNotOverwrite(t *testing.T) {
	path := createKeyset(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.CreateKeyset(path); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("an existing keyset: got %v, want an error that wraps fs.ErrExist", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Fatalf("the keyset has changed, or cannot be read: %v", err)
	}
}

// TestMissingKeysAreThoseThatTheKeysetLacks checks secrets of two keys against the keyset with both
// keys, and against the keyset without the second key. It also checks damaged values.
func TestMissingKeysAreThoseThatTheKeysetLacks(t *testing.T) {
	path := createKeyset(t)
	sealedWithFirstKey := sealSecret(t, openSealer(t, path))
	earlierKeyset, err := secrets.ReadKeyset(path)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := secrets.Rotate(path)
	if err != nil {
		t.Fatal(err)
	}
	sealedWithSecondKey := sealSecret(t, openSealer(t, path))
	rotatedKeyset, err := secrets.ReadKeyset(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		keyset []byte
		sealed [][]byte
		want   []string
	}{
		"all keys":       {rotatedKeyset, [][]byte{sealedWithFirstKey, sealedWithSecondKey}, nil},
		"no values":      {rotatedKeyset, nil, nil},
		"a lost key":     {earlierKeyset, [][]byte{sealedWithFirstKey, keyPrefix(sealedWithSecondKey)}, []string{keys[1].ID}},
		"damaged values": {earlierKeyset, [][]byte{nil, {1, 2}, []byte("not sealed")}, nil},
	} {
		if got, err := secrets.MissingKeys(tc.keyset, tc.sealed); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, tc.want)
		}
	}
}

func TestRotatedKeysetContainsTheEarlierKeyset(t *testing.T) {
	path := createKeyset(t)
	earlier, err := secrets.ReadKeyset(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Rotate(path); err != nil {
		t.Fatal(err)
	}
	rotated, err := secrets.ReadKeyset(path)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := secrets.ReadKeyset(createKeyset(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name               string
		content, contained []byte
		want               bool
	}{
		{"the same keyset", earlier, earlier, true},
		{"the rotated keyset contains the earlier one", rotated, earlier, true},
		{"the earlier keyset lacks the new key", earlier, rotated, false},
		{"a foreign keyset", rotated, foreign, false},
	} {
		if got, err := secrets.ContainsKeyset(tc.content, tc.contained); err != nil || got != tc.want {
			t.Errorf("%s: got %v, %v, want %v", tc.name, got, err, tc.want)
		}
	}
}

func TestSecretsOfTheOldKeyOpenAfterRotation(t *testing.T) {
	path := createKeyset(t)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	sealedWithOldKey := sealSecret(t, openSealer(t, path))
	keys, err := secrets.Rotate(path)
	if got := keyStatuses(t, keys, err); got != "old primary" {
		t.Fatalf("after the first rotation the keys are %s, want old primary", got)
	}
	sealer := openSealer(t, path)
	sealedWithNewKey := sealSecret(t, sealer)
	if bytes.Equal(keyPrefix(sealedWithOldKey), keyPrefix(sealedWithNewKey)) {
		t.Fatal("after the rotation a secret is sealed with the old key")
	}
	requireOpens(t, sealer, sealedWithOldKey)
	requireOpens(t, sealer, sealedWithNewKey)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the rotated file: got %v, %v, want the mode 0640", info, err)
	}
	if remaining, err := os.ReadDir(filepath.Dir(path)); err != nil || len(remaining) != 1 {
		t.Errorf("the folder of the keyset has the files %v (%v), want only the keyset", remaining, err)
	}
}

// TestReplicaOpensSecretsOfItsStagedKey copies the keyset file to a second replica while its new
// key is staged, and then makes the key primary on the first replica. The second replica must open
// the secrets that the first replica seals with the key.
func TestReplicaOpensSecretsOfItsStagedKey(t *testing.T) {
	path := createKeyset(t)
	replicaPath := filepath.Join(t.TempDir(), "keyset.json")
	sealedWithPrimary := sealSecret(t, openSealer(t, path))
	keys, err := secrets.Stage(path)
	if got := keyStatuses(t, keys, err); got != "primary staged" {
		t.Fatalf("after staging the keys are %s, want primary staged", got)
	}
	if _, err := secrets.Stage(path); !errors.Is(err, secrets.ErrStaged) {
		t.Fatalf("a second staged key: got %v, want ErrStaged", err)
	}
	if !bytes.Equal(keyPrefix(sealedWithPrimary), keyPrefix(sealSecret(t, openSealer(t, path)))) {
		t.Fatal("a secret is sealed with the staged key")
	}
	content, err := secrets.ReadKeyset(path)
	if err == nil {
		err = secrets.WriteNewKeyset(replicaPath, content)
	}
	if err != nil {
		t.Fatal(err)
	}
	keys, err = secrets.Rotate(path)
	if got := keyStatuses(t, keys, err); got != "old primary" {
		t.Fatalf("after the rotation the keys are %s, want old primary", got)
	}
	requireOpens(t, openSealer(t, replicaPath), sealSecret(t, openSealer(t, path)))
	if keys, err = secrets.Keys(path); keyStatuses(t, keys, err) != "old primary" {
		t.Fatalf("the file has the keys %v, want the statuses old primary", keys)
	}
}

func TestConcurrentRotationsAreAllKept(t *testing.T) {
	path := createKeyset(t)
	var rotations sync.WaitGroup
	for range 8 {
		rotations.Go(func() {
			if _, err := secrets.Rotate(path); err != nil {
				t.Error(err)
			}
		})
	}
	rotations.Wait()
	if keys, err := secrets.Keys(path); err != nil || len(keys) != 9 {
		t.Fatalf("got %d keys, %v, want 9", len(keys), err)
	}
}

// TestRotateKeepsASymbolicLink checks that a rotation replaces the target of a symbolic link.
// Orchestrators mount secrets as symbolic links.
func TestRotateKeepsASymbolicLink(t *testing.T) {
	path := createKeyset(t)
	link := filepath.Join(t.TempDir(), "keyset.json")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Rotate(link); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Fatalf("the link became %v, %v, want a symbolic link", info, err)
	}
	if keys, err := secrets.Keys(path); err != nil || len(keys) != 2 {
		t.Fatalf("got %d keys, %v, want 2", len(keys), err)
	}
}

func TestSealerReloadsAChangedFile(t *testing.T) {
	path := createKeyset(t)
	sealingSealer, openingSealer := openSealer(t, path), openSealer(t, path)
	sealedWithOldKey := sealSecret(t, sealingSealer)
	if _, err := secrets.Rotate(path); err != nil {
		t.Fatal(err)
	}
	sealedWithNewKey := sealSecret(t, openSealer(t, path))
	requireOpens(t, openingSealer, sealedWithNewKey) // Open reads a changed file at once if it does not know the key
	requireOpens(t, openingSealer, sealedWithOldKey)
	for deadline := time.Now().Add(4 * time.Minute); ; <-time.After(20 * time.Millisecond) {
		if bytes.Equal(keyPrefix(sealSecret(t, sealingSealer)), keyPrefix(sealedWithNewKey)) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the sealer still uses the old key after 4 minutes")
		}
	}
	requireOpens(t, sealingSealer, sealedWithOldKey)
}

func TestSealerKeepsItsKeysetWhileTheFileIsUnusable(t *testing.T) {
	path := createKeyset(t)
	validKeyset, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	sealer := openSealer(t, path)
	sealer.Log = slog.New(slog.NewTextHandler(&logged, nil))
	ownSecret := sealSecret(t, sealer)
	foreignSecret := sealSecret(t, openSealer(t, createKeyset(t)))
	for name, damageFile := range map[string]func() error{
		"cut off":        func() error { return os.WriteFile(path, validKeyset[:len(validKeyset)-9], 0o600) },
		"gone":           func() error { return os.Remove(path) },
		"open to others": func() error { return errors.Join(os.WriteFile(path, validKeyset, 0o600), os.Chmod(path, 0o644)) },
	} {
		t.Run(name, func(t *testing.T) {
			logged.Reset()
			if err := damageFile(); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := sealer.Open(foreignSecret, "p"); err == nil {
					t.Fatal("a secret of a different keyset opens")
				}
			}
			requireOpens(t, sealer, ownSecret)
			requireOpens(t, sealer, sealSecret(t, sealer))
			if reports := strings.Count(logged.String(), "stays in use"); reports != 1 {
				t.Errorf("the log reports the error %d times, want once: %s", reports, logged.String())
			}
			if material := string(validKeyset[100:140]); strings.Contains(logged.String(), material) {
				t.Error("the log contains a part of the keyset")
			}
			if err := errors.Join(os.WriteFile(path, validKeyset, 0o600), os.Chmod(path, 0o600)); err != nil {
				t.Fatal(err)
			}
			if _, err := sealer.Open(foreignSecret, "p"); err == nil {
				t.Fatal("a secret of a different keyset opens")
			}
		})
	}
}

// TestSealerRetriesAFailedReload checks that the sealer reads a keyset file again after a failed
// reload, even if the size and the time of the file stay the same. The owner of the file may have
// been corrected, for example. The sealer does not repeat the read at once.
func TestSealerRetriesAFailedReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := createKeyset(t)
		sealer := openSealer(t, path)
		if _, err := secrets.Rotate(path); err != nil {
			t.Fatal(err)
		}
		sealedWithNewKey := sealSecret(t, openSealer(t, path))
		rotated, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// write changes the content of the file. Each write leaves the size and the modification
		// time as the previous write set them.
		modified := time.Now()
		write := func(content []byte) {
			t.Helper()
			if err := errors.Join(os.WriteFile(path, content, 0o600), os.Chtimes(path, modified, modified)); err != nil {
				t.Fatal(err)
			}
		}
		write(bytes.Repeat([]byte(" "), len(rotated)))
		if _, err := sealer.Open(sealedWithNewKey, "p"); err == nil {
			t.Fatal("a secret opens with an unusable keyset file")
		}
		write(rotated)
		if _, err := sealer.Open(sealedWithNewKey, "p"); err == nil {
			t.Error("the sealer repeats a failed reload at once")
		}
		time.Sleep(2 * time.Second) // longer than checkInterval
		requireOpens(t, sealer, sealedWithNewKey)
	})
}

// TestForgedSecretsDoNotReadTheKeyset checks that a forged secret causes no read of an unchanged
// keyset file, whether its key exists or not. Reading and parsing the file needs hundreds of
// allocations.
func TestForgedSecretsDoNotReadTheKeyset(t *testing.T) {
	sealer := openSealer(t, createKeyset(t))
	changed := sealSecret(t, sealer)
	changed[len(changed)-1] ^= 1
	for name, forged := range map[string][]byte{
		"changed":               changed,
		"of a different key":    sealSecret(t, openSealer(t, createKeyset(t))),
		"shorter than a key id": {1, 2, 3},
		"not of Tink":           []byte("forged forged forged forged forged"),
	} {
		allocations := testing.AllocsPerRun(100, func() {
			if _, err := sealer.Open(forged, "p"); err == nil {
				t.Errorf("a secret that is %s opens", name)
			}
		})
		if allocations > 50 {
			t.Errorf("a secret that is %s takes %v allocations, want at most 50", name, allocations)
		}
	}
}

// TestSealingDoesNotWaitForTheKeysetFile checks that secrets are sealed and opened while a
// different goroutine reads the file.
func TestSealingDoesNotWaitForTheKeysetFile(t *testing.T) {
	sealer := openSealer(t, createKeyset(t))
	defer sealer.BlockReload()()
	opened := make(chan error, 1)
	go func() {
		sealed, err := sealer.Seal(secret.New(testSecret), "p")
		if err == nil {
			_, err = sealer.Open(sealed, "p")
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(4 * time.Minute):
		t.Fatal("a secret was not sealed and opened within 4 minutes while the file was being checked")
	}
}
