// SPDX-License-Identifier: Apache-2.0

package secrets_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/core/secret"
)

func TestDecryptReadsOnlyWithThePassphrase(t *testing.T) {
	text := strings.Repeat(testSecret, 10_000)
	var closed bytes.Buffer
	w, err := secrets.EncryptFast(&closed, secret.New("right"))
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if !secrets.Encrypted(closed.Bytes()[:20]) || secrets.Encrypted([]byte(text)) || bytes.Contains(closed.Bytes(), []byte(testSecret)) {
		t.Fatal("the data does not look encrypted")
	}
	r, err := secrets.Decrypt(bytes.NewReader(closed.Bytes()), secret.New("right"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != text {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if _, err := secrets.Decrypt(bytes.NewReader(closed.Bytes()), secret.New("wrong")); !errors.Is(err, secrets.ErrPassphrase) {
		t.Fatalf("a wrong passphrase: %v", err)
	}
	changed := bytes.Clone(closed.Bytes())
	changed[len(changed)-100] ^= 1
	if r, err = secrets.Decrypt(bytes.NewReader(changed), secret.New("right")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err == nil {
		t.Fatal("changed data was decrypted without an error")
	}
}
