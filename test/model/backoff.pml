/* backoff - a call that waits for a retry, the threads that drain its queue, and whoever may end it
 * meanwhile, in every order of their steps: what is done to a word that is read without the queue's
 * lock is one step, and so is what is done under the lock to all else.
 *
 * doc/model.md says which function a step is of, what is left out, and how to read a trail. The names
 * in capitals that are asked for with #ifdef are mutations: `check` defines them, one at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef CANCELS
#define CANCELS 1 /* whether the application may cancel */
#endif
#ifndef PARENT
#define PARENT 1 /* whether there is a parent, which may be cancelled */
#endif
#ifndef SHUTS_EARLY
#define SHUTS_EARLY 1 /* whether the queue may be shut down before the call has ended */
#endif
#ifndef SLEEPS
#define SLEEPS 1 /* whether drainers sleep, and have to be woken; if not, they see what is there at any time */
#endif
#ifndef FOREIGN
#define FOREIGN 0 /* whether an event of the application's own comes to its queue */
#endif
#ifndef MISHAPS
#define MISHAPS 1 /* whether memory may run out, and a retry be made without a wait */
#endif
#define NEVER 15
#define CALL_CANCELLED 1
#define CALL_PARENT_CANCELLED 2
#define CALL_ENDED 4

/* What a drainer gets of the core. */
mtype = {TIMED_OUT, SHUT_DOWN, BELL, ATTEMPT, WATCH, FOREIGN_EVENT};

/* The call. */
byte state;
byte n_refs = 2;       /* the application's, and the batch's */
bool freed;
bool watched;          /* call->watch */
byte attempts = 1;     /* that were started */

/* The queue, all but the lock itself guarded by it. */
bool locked;
bool queue_shut_down;
bool armed;
byte due;
bool ready;            /* the call's completion is on the ready list */

/* The queue's atomic words. */
bool stir_ready, stir_timer; byte sleepers; /* head.stir */
byte next_due = NEVER;
byte watch_epoch, watchers;                 /* watch */
bool bell_rung;
byte owed = 2, held = 1;                    /* head.n_open: the call's tag, and until shutdown */
byte n_queue_refs = 2;                      /* the application's, and the call's */

/* The core. */
bool attempt_runs = true;
bool bell_comes;
bool watch_runs, watch_cancelled;
bool core_shut_down;
bool parent_cancelled;
bool foreign_comes = FOREIGN;
byte clock;

/* What holds in truth. */
byte n_ended, n_tags, n_shut_downs;
#ifdef SETTLE_EARLY
bool settled;
#endif

inline touch() { assert(!freed && n_queue_refs > 0) }

inline queue_unref() {
  n_queue_refs--
}

/* weir__call_release, and call_free */
inline release() {
  touch();
  n_refs--;
  if
  :: n_refs == 0 -> freed = true; queue_unref()
  :: else
  fi
}

/* weir__queue_unhold */
inline unhold() {
  atomic {
    assert(n_queue_refs > 0 && held > 0);
    held--;
    if
    :: held == 0 && owed == 0 -> core_shut_down = true
    :: else
    fi
  }
}

/* weir__queue_settle, and weir__queue_close: nothing that is held here has an on_close */
inline settle() {
  atomic {
    owed--;
    is_last = owed == 0
  }
  if
  :: is_last -> atomic { !locked -> is_last = false }; unhold()
  :: else
  fi
}

/* weir__queue_wake_one, and weir__queue_ring */
inline wake_one() {
  if
  :: sleepers > 0 ->
    atomic {
      if
      :: !bell_rung -> bell_rung = true; wakes = true
      :: else -> wakes = false
      fi
    }
    if
    :: wakes -> atomic { assert(!core_shut_down); bell_comes = true }
    :: else
    fi
  :: sleepers == 0
  fi
}

/* weir__queue_wake_for_timer */
inline wake_for_timer() {
  if
  :: !stir_timer || sleepers == 0
  :: stir_timer && sleepers > 0 ->
    if
    :: watchers > 0
    :: watchers == 0 ->
      atomic {
        wakes = owed > 0 || held > 0;
        if
        :: wakes -> held++
        :: else
        fi
      }
      if
      :: wakes -> wake_one(); unhold()
      :: else
      fi
    fi
  fi
}

/* weir__queue_push_ready */
inline push_ready() {
  atomic {
    !locked ->
    locked = true;
    touch();
    assert(!ready);
    ready = true;
    stir_ready = true;
    wakes = sleepers > 0
  }
  atomic {
#ifndef NO_HOLD
    if
    :: wakes && (owed > 0 || held > 0) -> held++
    :: else -> wakes = false
    fi;
#endif
    locked = false
  }
#ifdef NO_HOLD
  if
  :: wakes -> wake_one()
  :: else
  fi
#else
  if
  :: wakes -> wake_one(); unhold()
  :: else
  fi
#endif
}

/* take_due, and take_any: `was_armed` says whether there was one. Its end is weir__queue_disarm_locked, with
 * publish_next_due_locked, of a queue that has no other timer. */
inline take_timer(at_most) {
  atomic {
    !locked ->
    was_armed = armed && due <= at_most;
    if
#ifdef FIRE_ARMED
    :: was_armed -> locked = true
#else
    :: was_armed -> locked = true; armed = false; stir_timer = false
#endif
    :: else
    fi
  }
  if
  :: was_armed -> atomic { next_due = NEVER; locked = false }
  :: else
  fi
}

/* weir__call_end */
inline call_end() {
  atomic {
    touch();
    n_ended++;
    assert(n_ended == 1);
    if
    :: watched -> watch_cancelled = true /* weir__parent_watch_stop */
    :: else
    fi
  }
  atomic { touch(); state = state | CALL_ENDED }
}

/* end_waiting, of weir__backoff_on_due and of weir__backoff_cancelled */
inline end_waiting() {
  call_end();
#ifdef SETTLE_EARLY
  atomic { owed--; settled = true }
#endif
  push_ready()
}

/* may_go_on_locked, with the lock */
inline may_go_on() {
  touch();
  goes_on = (state & (CALL_CANCELLED | CALL_PARENT_CANCELLED)) == 0 && !queue_shut_down
}

/* attempt_again: `goes_on` says whether it was started */
inline attempt_again() {
  atomic {
    !locked ->
#ifdef NO_SECOND_CHECK
    touch();
#else
    may_go_on();
#endif
    assert(!goes_on || ((state & (CALL_CANCELLED | CALL_PARENT_CANCELLED)) == 0 && !queue_shut_down))
  }
  if
  :: goes_on ->
    atomic {
      if
      :: touch(); attempts++; attempt_runs = true /* what comes of it is a drainer's from here on */
#if MISHAPS
      :: goes_on = false /* no memory */
#endif
      fi
    }
  :: else
  fi
}

/* weir__backoff_on_due */
inline on_due() {
  atomic { !locked -> may_go_on() }
  if
  :: goes_on ->
    if
    :: attempt_again()
    :: goes_on = false /* weir__stack_resume: the breaker has opened */
    fi
  :: else
  fi;
  if
  :: !goes_on -> end_waiting()
  :: else
  fi
}

/* weir__call_parent_cancelled, and cancel_with: says that the call is cancelled, and if it waited for its
 * timer ends it. An attempt that is under way ends anyhow. */
inline cancel(mark) {
  atomic {
    !locked ->
    touch();
    if
    :: mark == CALL_CANCELLED && (state & (CALL_CANCELLED | CALL_ENDED)) != 0 -> was_armed = false
    :: else ->
      state = state | mark;
      was_armed = armed;
      if
      :: was_armed -> locked = true
      :: else
      fi
    fi
  }
  if
  :: was_armed ->
#ifndef CANCEL_WITHOUT_DISARM
    /* weir__queue_disarm_locked, and publish_next_due_locked */
    atomic { armed = false; stir_timer = false }
    next_due = NEVER;
#endif
    locked = false;
    end_waiting() /* weir__backoff_cancelled */
  :: else
  fi
}

/* weir_completion_queue_next, again and again */
proctype drainer(bool may_leave) {
  mtype event;
  byte until = NEVER, epoch;
  bool watching, is_last, wakes, was_armed, goes_on;

  next:
#if !SLEEPS
  if
  :: armed && due <= clock -> /* fire_due, and take_due */
    take_timer(clock);
    if
    :: was_armed -> was_armed = false; on_due(); goes_on = false
    :: else
    fi;
    goto next
  :: atomic { ready && !locked -> ready = false; goto hand_over } /* take_ready, and unary_deliver */
  :: atomic { attempt_runs -> attempt_runs = false; goto attempt_event }
  :: atomic { watch_runs && (parent_cancelled || watch_cancelled) -> watch_runs = false; goto watch_event }
  :: atomic { core_shut_down && !attempt_runs && !watch_runs -> goto shut_down }
  fi;
#else
  /* weir__queue_drain */
  atomic {
    event = 0;
#ifndef SLEEPS_UNSEEN
    sleepers++;
#endif
    if
    :: stir_ready
    :: !stir_ready && stir_timer -> goto minds
    :: else -> until = NEVER; goto sleep
    fi
  }
  goto stirred;

  /* weir__queue_drain_stirred: only a timer */
  minds:
  if
  :: next_due > clock -> goto counted
  :: next_due <= clock
  fi;

  /* attend */
  stirred:
#ifndef SLEEPS_UNSEEN
  sleepers--;
#endif

  /* fire_due, and take_due */
  if
  :: next_due > clock
  :: next_due <= clock ->
    take_timer(clock);
    if
    :: was_armed -> was_armed = false; on_due(); goes_on = false
    :: else
    fi
  fi;

  /* take_ready */
  if
  :: !stir_ready
  :: stir_ready ->
    atomic {
      !locked ->
      stir_ready = false;
      if
      :: ready -> ready = false; goto hand_over /* unary_deliver */
      :: else
      fi
    }
  fi;

  atomic {
#ifndef SLEEPS_UNSEEN
    sleepers++;
#endif
    if
    :: stir_ready -> goto awake
    :: else
    fi
  }
  /* sleep_counted */
  counted:
  epoch = watch_epoch;
  until = next_due; /* patience_until */
  /* watch_join */
  if
  :: until == NEVER
  :: until != NEVER ->
    atomic {
      if
      :: watch_epoch == epoch -> watchers++; watching = true
      :: else
      fi
    }
  fi;

  /* queue_next of the core's queue */
  sleep:
#ifdef SLEEPS_UNSEEN
  sleepers++;
#endif
  atomic {
    if
    :: bell_comes -> bell_comes = false; event = BELL
    :: attempt_runs -> attempt_runs = false; event = ATTEMPT
    :: watch_runs && (parent_cancelled || watch_cancelled) -> watch_runs = false; event = WATCH
    :: foreign_comes && !core_shut_down -> foreign_comes = false; event = FOREIGN_EVENT
    :: core_shut_down && !bell_comes && !attempt_runs && !watch_runs -> event = SHUT_DOWN
    :: until <= clock -> event = TIMED_OUT
    fi;
    until = NEVER
  }
  /* watch_leave */
  atomic {
    if
    :: watching && watch_epoch == epoch -> watchers--
    :: else
    fi;
    watching = false; epoch = 0
  }
  awake:
  sleepers--;
  if
  :: event == 0 || event == TIMED_OUT -> goto next
#ifdef BELL_STAYS_RUNG
  :: event == BELL -> goto next
#else
  :: event == BELL -> bell_rung = false; goto next
#endif
  :: event == FOREIGN_EVENT -> goto leave
  :: event == WATCH -> goto watch_event
  :: event == ATTEMPT -> goto attempt_event
  :: event == SHUT_DOWN -> goto shut_down
  fi;
#endif

  shut_down:
  atomic {
    assert(n_tags == 1);
    n_shut_downs++;
    goto end
  }

  /* unary_on_event: weir__stack_settle, and weir__backoff_begin up to the lock */
  attempt_event:
  atomic {
    touch();
    assert((state & CALL_ENDED) == 0 && !armed);
    event = 0;
    if
    :: goto ended                               /* an answer, or a failure that is not retried */
    :: attempts < ATTEMPTS /* it is to wait, */
#if MISHAPS
    :: attempts < ATTEMPTS -> goto again_at_once /* or not to */
#endif
    fi
  }
#if PARENT
  /* weir__parent_watch_start */
  atomic {
    if
    :: !watched ->
      if
      :: owed > 0 ->
#ifndef WATCH_WITHOUT_HOLD
        held++;
#endif
#ifndef WATCH_WITHOUT_SHARE
        n_refs++;
#endif
        watched = true; watch_runs = true
#if MISHAPS
      :: true /* no memory */
#endif
      fi
    :: else
    fi
  }
#endif
  /* arm_locked */
  atomic {
    !locked ->
#ifdef ARM_UNCHECKED
    goes_on = true;
#else
    may_go_on();
#endif
    if
    :: goes_on ->
      assert((state & (CALL_CANCELLED | CALL_PARENT_CANCELLED)) == 0 && !queue_shut_down);
      locked = true; armed = true; due = clock + 1; next_due = due
    :: else -> goto ended
    fi
  }
  stir_timer = true;
  atomic { watch_epoch++; watchers = 0; n_queue_refs++; locked = false }
  wake_for_timer();
  atomic { queue_unref(); wakes = false; goes_on = false; goto next }

#if MISHAPS
  again_at_once:
  attempt_again();
  if
  :: goes_on -> goes_on = false; goto next
  :: else
  fi;
#endif

  ended:
  call_end();

  /* weir__call_hand_over */
  hand_over:
  atomic {
    n_tags++;
    assert(n_tags == 1 && n_ended == 1 && n_shut_downs == 0);
    release()
  }
#ifdef SETTLE_EARLY
  if
  :: settled
  :: else -> settle()
  fi;
#else
  settle();
#endif
  is_last = false;

  /* weir__queue_leave: the thread has what it came for, and may be gone for long */
  leave:
#ifndef LEAVES_UNSEEN
  wake_for_timer();
#endif
  atomic {
    wakes = false; event = 0;
    if
    :: goto next
    :: may_leave && n_tags == 0 -> goto end
    fi
  }

  /* watch_on_event */
  watch_event:
  event = 0;
  if
  :: parent_cancelled -> cancel(CALL_PARENT_CANCELLED); was_armed = false; wakes = false
  :: watch_cancelled
  fi;
  unhold();
  atomic { release(); goto next }

  end:
  skip
}

/* The application: cancels the call, or doesn't, and gives its share of it back. */
proctype canceller() {
  bool was_armed, wakes;
  if
#if CANCELS
  :: cancel(CALL_CANCELLED)
#endif
  :: n_tags == 1
  fi;
  atomic { release() }
}

proctype shutter() {
  bool is_last, was_armed, wakes, goes_on;
  if
#if SHUTS_EARLY
  :: true
#endif
  :: n_tags == 1
  fi;
  /* weir_completion_queue_shutdown */
  atomic { !locked -> queue_shut_down = true }
#ifndef NO_FIRING
  /* weir__queue_fire_all, and take_any */
  take_timer(NEVER);
  if
  :: was_armed -> was_armed = false; on_due()
  :: else
  fi;
#endif
  assert(!armed);
  settle()
}

proctype parent() {
  if
  :: parent_cancelled = true
  :: n_tags == 1
  fi
}

proctype timekeeper() {
  do
  :: armed && clock < due -> clock = due
  :: n_tags == 1 -> break
  od
}

/* What is left when all is over. */
proctype witness() {
  n_shut_downs > 0 && n_refs == 0 && n_queue_refs == 1;
  assert(freed && held == 0 && owed == 0 && !armed && !ready && !attempt_runs && !watch_runs)
}

init {
  atomic {
    run drainer(false);
    run drainer(true);
    run canceller();
    run shutter();
#if PARENT
    run parent();
#endif
    run timekeeper();
    run witness()
  }
}
