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
	var encrypted bytes.Buffer
	w, err := secrets.EncryptWithLowWorkFactor(&encrypted, secret.New("right"))
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if !secrets.IsEncrypted(encrypted.Bytes()[:20]) || secrets.IsEncrypted([]byte(text)) || bytes.Contains(encrypted.Bytes(), []byte(testSecret)) {
		t.Fatal("the data does not look encrypted")
	}
	decrypter := func(passphrase string) *secrets.Decrypter {
		d, err := secrets.NewDecrypter(secret.New(passphrase))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	right := decrypter("right")
	derivations := secrets.CountDerivations(right)
	for range 2 {
		r, err := right.Decrypt(bytes.NewReader(encrypted.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != text {
			t.Fatalf("decrypted %d bytes (%v), want the %d bytes of the text", len(got), err, len(text))
		}
	}
	if *derivations != 1 {
		t.Errorf("the key was derived %d times, want once", *derivations)
	}
	if _, err := decrypter("wrong").Decrypt(bytes.NewReader(encrypted.Bytes())); !errors.Is(err, secrets.ErrPassphrase) {
		t.Fatalf("a wrong passphrase: got %v, want ErrPassphrase", err)
	}
	changed := bytes.Clone(encrypted.Bytes())
	changed[len(changed)-100] ^= 1
	r, err := right.Decrypt(bytes.NewReader(changed))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err == nil {
		t.Fatal("changed data was decrypted without an error")
	}
}
