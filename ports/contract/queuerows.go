// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// rows are jobs as a store keeps them, fenced by their epochs: a file that
// processes share and that survives each of them. Every change is a line, so
// that it is also the history.
type rows struct{ path string }

// mark is one line.
type mark struct {
	ID    string    `json:"id"`
	What  string    `json:"what"` // added, taken, saved, refused
	Epoch int       `json:"epoch"`
	At    time.Time `json:"at"`
	PID   int       `json:"pid"`
}

var errLate = errors.New("the row has another epoch")

func newRows(t testing.TB, ids ...string) *rows {
	t.Helper()
	r := &rows{filepath.Join(t.TempDir(), "rows")}
	err := r.change(func([]mark) (more []mark) {
		for _, id := range ids {
			more = append(more, mark{ID: id, What: "added"})
		}
		return more
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// row is what the marks of an id come to.
type row struct {
	epoch int
	taken time.Time
	saved bool
}

func (r row) free(now time.Time) bool { return !r.saved && now.Sub(r.taken) > QueueRescue }

func rowsOf(marks []mark) (ids []string, all map[string]row) {
	all = map[string]row{}
	for _, m := range marks {
		now := all[m.ID]
		switch m.What {
		case "added":
			ids = append(ids, m.ID)
		case "taken":
			now.epoch, now.taken = m.Epoch, m.At
		case "saved":
			now.saved = true
		}
		all[m.ID] = now
	}
	return ids, all
}

// Take begins work on a row that nobody works on, under a new epoch.
func (r *rows) Take(id string) (epoch int, ok bool, err error) {
	err = r.change(func(marks []mark) []mark {
		_, all := rowsOf(marks)
		if !all[id].free(time.Now()) {
			return nil
		}
		epoch, ok = all[id].epoch+1, true
		return []mark{{ID: id, What: "taken", Epoch: epoch}}
	})
	return epoch, ok, err
}

// Save ends the work, or refuses with errLate where the row is another's.
func (r *rows) Save(id string, epoch int) error {
	late := false
	err := r.change(func(marks []mark) []mark {
		_, all := rowsOf(marks)
		if late = all[id].saved || all[id].epoch != epoch; late {
			return []mark{{ID: id, What: "refused", Epoch: epoch}}
		}
		return []mark{{ID: id, What: "saved", Epoch: epoch}}
	})
	if late {
		err = errors.Join(err, errLate)
	}
	return err
}

// Due lists the rows that nobody works on, of four accounts.
func (r *rows) Due(context.Context) (due []ports.Wakeup, err error) {
	err = r.change(func(marks []mark) []mark {
		ids, all := rowsOf(marks)
		for i, id := range ids {
			if all[id].free(time.Now()) {
				due = append(due, ports.Wakeup{Kind: "job", ID: id, Account: access.AccountID(fmt.Sprint("ann-", i%4))})
			}
		}
		return nil
	})
	return due, err
}

func (r *rows) sweep(q ports.Queue) ports.Periodic {
	return ports.Sweep("sweep", 500*time.Millisecond, q, r.Due)
}

// marks is the history.
func (r *rows) marks(t testing.TB) (all []mark) {
	t.Helper()
	if err := r.change(func(marks []mark) []mark { all = marks; return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// change is one transaction: decide sees all marks and returns new ones.
func (r *rows) change(decide func([]mark) []mark) error {
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // and with it the lock
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	var marks []mark
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var m mark
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return err
		}
		marks = append(marks, m)
	}
	var text []byte
	for _, m := range decide(marks) {
		m.At, m.PID = time.Now(), os.Getpid()
		line, err := json.Marshal(m)
		if err != nil {
			return err
		}
		text = append(append(text, line...), '\n')
	}
	if len(text) == 0 {
		return lines.Err()
	}
	_, err = f.Write(text)
	return errors.Join(lines.Err(), err)
}
