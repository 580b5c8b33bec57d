package notify

import "time"

// Impatient makes tries and all that is tried for one push end sooner. It is called before
// the notifier is started.
func (n *Notifier) Impatient(try, all time.Duration) {
	for _, t := range n.senders {
		t.patience = patience{try, all}
	}
}
