// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"sync"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/secret"
)

// maxAcceptedKeys limits the memory of acceptedKeys to about one megabyte.
const maxAcceptedKeys = 10_000

// acceptedKeys remembers the accounts of keys that this process has accepted before. A request with
// such a key uses a slot of its account from the start. The request therefore does not compete for
// slots with requests that have invalid keys, even if those requests come from the same address.
// authenticate still checks each key.
type acceptedKeys struct {
	mu       sync.Mutex
	accounts map[[32]byte]access.AccountID // keyed by access.HashKey
}

// account returns the account of the key in an Authorization header. ok is false if this process
// has not accepted the key.
func (k *acceptedKeys) account(authorization []string) (account access.AccountID, ok bool) {
	token, err := access.BearerToken(authorization)
	if err != nil {
		return "", false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	account, ok = k.accounts[access.HashKey(secret.New(token))]
	return account, ok
}

// add stores the account of the key in an Authorization header. If there are too many keys, it
// removes an arbitrary key.
func (k *acceptedKeys) add(authorization []string, account access.AccountID) {
	token, err := access.BearerToken(authorization)
	if err != nil {
		return
	}
	hash := access.HashKey(secret.New(token))
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.accounts == nil {
		k.accounts = map[[32]byte]access.AccountID{}
	}
	if _, known := k.accounts[hash]; !known && len(k.accounts) >= maxAcceptedKeys {
		for other := range k.accounts {
			delete(k.accounts, other)
			break
		}
	}
	k.accounts[hash] = account
}

// forgetKey removes the key in an Authorization header, because the key was refused.
func (k *acceptedKeys) forgetKey(authorization []string) {
	token, err := access.BearerToken(authorization)
	if err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.accounts, access.HashKey(secret.New(token)))
}
