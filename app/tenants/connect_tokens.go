// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
)

// A connect flow uses four tokens.
//
// The state is part of the link. It contains the account and the expiry, and is encrypted. The hash
// of the state is the id of the flow. The cookie binds one browser to the flow: it contains the id
// of the flow and a random part. The sign-in's state and the CSRF token are one-way hashes of the
// cookie. Before they read the store, Callback checks the seal of the state, FinishSignIn checks
// the sign-in's state, and Confirm checks the CSRF token.
//
// stateAssociatedData is the associated data of a sealed state.
const stateAssociatedData = "connect/state"

func invalidLinkError() error {
	return fault.ConnectLinkInvalid.With("the connect link is forged, expired, already used or was opened in another browser")
}

func (s *Service) sealState(owner access.AccountID, expires time.Time) (string, error) {
	token, err := s.randomToken()
	if err != nil {
		return "", err
	}
	plaintext := strings.Join([]string{token, string(owner), strconv.FormatInt(expires.Unix(), 10)}, " ")
	sealedState, err := s.Sealer.Seal(secret.New(plaintext), stateAssociatedData)
	if err != nil {
		return "", fmt.Errorf("seal state: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sealedState), nil
}

// openState returns the account of a state. It fails with connect_link_invalid when the seal is
// wrong or the state has expired.
func (s *Service) openState(state string) (access.AccountID, error) {
	owner, expires, err := s.unsealState(state)
	if err != nil || !s.Now().Before(expires) {
		return "", invalidLinkError()
	}
	return owner, nil
}

// unsealState returns the account and the expiry of a state. It fails with connect_link_invalid
// when the seal is wrong.
func (s *Service) unsealState(state string) (access.AccountID, time.Time, error) {
	sealedState, err := base64.RawURLEncoding.Strict().DecodeString(state)
	if err != nil || state == "" {
		return "", time.Time{}, invalidLinkError()
	}
	plaintext, err := s.Sealer.Open(sealedState, stateAssociatedData)
	if err != nil {
		return "", time.Time{}, invalidLinkError()
	}
	parts := strings.Split(plaintext.Reveal(), " ")
	if len(parts) != 3 {
		return "", time.Time{}, invalidLinkError()
	}
	expires, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return "", time.Time{}, invalidLinkError()
	}
	return access.AccountID(parts[1]), time.Unix(expires, 0), nil
}

func (s *Service) newCookie(stateHash [32]byte) (secret.Text, error) {
	token, err := s.randomToken()
	return secret.New(hex.EncodeToString(stateHash[:]) + "." + token), err
}

// flowID returns the id of the flow that a cookie names. It fails with connect_link_invalid when
// the cookie is malformed.
func flowID(cookie secret.Text) ([32]byte, error) {
	hexID, _, ok := strings.Cut(cookie.Reveal(), ".")
	id, err := hex.DecodeString(hexID)
	if !ok || err != nil || len(id) != sha256.Size {
		return [32]byte{}, invalidLinkError()
	}
	return [32]byte(id), nil
}

func hash(text string) [32]byte { return sha256.Sum256([]byte(text)) }

// deriveToken returns the token that a cookie has for one purpose: the state of the sign-in, or the
// CSRF token. The token is a one-way hash, so the cookie cannot be computed from the token.
func deriveToken(cookie secret.Text, purpose string) string {
	sum := hash(purpose + "\x00" + cookie.Reveal())
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// randomToken returns 256 random bits in base64url.
func (s *Service) randomToken() (string, error) {
	var random [32]byte
	if _, err := io.ReadFull(s.Random, random[:]); err != nil {
		return "", fmt.Errorf("read randomness: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(random[:]), nil
}
