// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Entry is one call that a simulator was asked. Status is 0 while there is no
// answer yet, and stays so when there never was one.
type Entry struct {
	Method    string    `json:"method"`
	Path      string    `json:"path"`
	Operation string    `json:"operation"`
	Status    int       `json:"status"`
	At        time.Time `json:"at"`
	Write     bool      `json:"write"`
}

// journal keeps the entries in the order in which the calls came. Its file is
// only ever appended to: one line when a call comes and one when its status is
// known, so a killed process has written down all that it was asked.
type journal struct {
	mu      sync.Mutex
	file    *os.File
	entries []Entry
	// first is the number of entries[0]; it grows when the journal is
	// emptied, so that a call under way then cannot mark a later one.
	first int
}

// line is one line of the journal's file: a call, or the status of call N.
type line struct {
	N      int    `json:"n"`
	Call   *Entry `json:"call,omitempty"`
	Status int    `json:"status,omitempty"`
}

func openJournal(path string) (*journal, error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	j := &journal{}
	whole := j.replay(raw)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j.file = file
	return j, file.Truncate(int64(whole)) // a line cut short by a kill goes
}

// replay reads the lines back and returns how many bytes were whole lines.
func (j *journal) replay(raw []byte) int {
	whole := bytes.LastIndexByte(raw, '\n') + 1
	lines := bufio.NewScanner(bytes.NewReader(raw[:whole]))
	lines.Buffer(nil, maxBody)
	for lines.Scan() {
		var l line
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue
		}
		if l.Call != nil {
			j.entries = append(j.entries, *l.Call)
		} else if l.N < len(j.entries) {
			j.entries[l.N].Status = l.Status
		}
	}
	return whole
}

// asked notes a call and returns its number.
func (j *journal) asked(e Entry) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := len(j.entries)
	j.entries = append(j.entries, e)
	return j.first + at, j.write(line{N: at, Call: &e})
}

// answered notes the status of call n.
func (j *journal) answered(n, status int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := n - j.first
	if at < 0 {
		return nil // the journal was emptied meanwhile
	}
	j.entries[at].Status = status
	return j.write(line{N: at, Status: status})
}

func (j *journal) write(l line) error {
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = j.file.Write(append(raw, '\n'))
	return err
}

// list returns the entries so far, never nil.
func (j *journal) list() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]Entry{}, j.entries...)
}

// empty forgets all entries.
func (j *journal) empty() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.first += len(j.entries)
	j.entries = nil
	return j.file.Truncate(0)
}
