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
	text := strings.Repeat(testSecret, 10_000) // several chunks of age, which encrypts 64 KiB at a time
	var encrypted bytes.Buffer
	plaintext, err := secrets.EncryptWithLowWorkFactor(&encrypted, secret.New("right"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(plaintext, text)
	if err := errors.Join(err, plaintext.Close()); err != nil {
		t.Fatal(err)
	}
	if !secrets.IsEncrypted(encrypted.Bytes()[:20]) || secrets.IsEncrypted([]byte(text)) || bytes.Contains(encrypted.Bytes(), []byte(testSecret)) {
		t.Fatal("IsEncrypted is wrong, or the encrypted data contains the secret")
	}
	newDecrypter := func(passphrase string) *secrets.Decrypter {
		d, err := secrets.NewDecrypter(secret.New(passphrase))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	rightDecrypter := newDecrypter("right")
	derivations := secrets.CountDerivations(rightDecrypter)
	for range 2 {
		r, err := rightDecrypter.Decrypt(bytes.NewReader(encrypted.Bytes()))
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
	if _, err := newDecrypter("wrong").Decrypt(bytes.NewReader(encrypted.Bytes())); !errors.Is(err, secrets.ErrPassphrase) {
		t.Fatalf("a wrong passphrase: got %v, want ErrPassphrase", err)
	}
	damaged := bytes.Clone(encrypted.Bytes())
	damaged[len(damaged)-100] ^= 1
	r, err := rightDecrypter.Decrypt(bytes.NewReader(damaged))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err == nil {
		t.Fatal("data with one changed bit was decrypted without an error")
	}
}
