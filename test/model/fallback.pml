/* fallback - a call that waits for a fallback's answer, the thread that asks it, and whoever may end
 * the wait first, in every order of their steps. Whoever takes the call's timer owns its end.
 *
 * doc/model.md says which function a step is of, what is left out, and how to read a trail. The names
 * in capitals that are asked for with #ifdef are mutations: `check` defines them, one at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* The call, its queue's lock and what that guards. */
bool queue_locked, armed, cancelled, shut_down, due;
bool ready, ended;
byte n_refs = 2; /* the application's, and the batch's */

/* The asking. */
bool asking_locked, waiter, asked;
byte n_asking_refs = 2; /* the waiter's, and the thread's */
bool answer_is_hit, has_message;

/* What holds in truth. */
byte n_concluded, n_tags, n_places = 1;
byte n_messages, n_handed, n_destroyed; /* of the answer */
byte n_requests = 1;                    /* the copy of the call's message */
bool begun, started, quiet; /* it is known whether a thread asks; one does; the call is gone */

inline touch_call() { assert(n_refs > 0) }
inline touch_asking() { assert(n_asking_refs > 0) }

/* weir__asking_release */
inline asking_release() {
  touch_asking();
  n_asking_refs--;
  if
  :: n_asking_refs == 0 && has_message -> has_message = false; n_destroyed++
  :: else
  fi
}

/* weir__call_release; the last share's end is call_free, which gives the asking's back */
inline call_release() {
  touch_call();
  n_refs--;
  if
  :: n_refs == 0 && asked -> asking_release()
  :: else
  fi
}

/* weir__call_conclude */
inline conclude() {
  atomic {
    touch_call();
    n_concluded++;
    assert(n_concluded == 1);
    ended = true
  }
}

/* weir__queue_push_ready */
inline push_ready() {
  atomic { !queue_locked -> touch_call(); assert(!ready); ready = true }
}

/* weir__asking_claim, whose claim is weir__queue_disarm_locked: `is_ours` says whether it was */
inline asking_claim() {
#ifdef CLAIM_UNLOCKED
  atomic { touch_asking(); is_ours = waiter }
#else
  atomic { !asking_locked -> touch_asking(); asking_locked = true; is_ours = waiter }
#endif
  if
  :: is_ours ->
    atomic {
      !queue_locked ->
      touch_call();
#ifndef CLAIM_ARMED
      is_ours = armed;
#endif
      armed = false
    }
  :: else
  fi;
  atomic {
    if
    :: is_ours -> waiter = false
    :: else
    fi;
    asking_locked = false
  }
}

/* drop_request, weir__fallbacks_leave */
inline drop() {
  atomic {
    assert(n_requests == 1 && n_places == 1);
    n_requests = 0; n_places = 0
  }
}

/* weir__fallback_begin from begin_waiting on, and what its caller does then */
proctype beginner() {
  bool is_ours;
  atomic {
    !queue_locked ->
    if
#ifdef ARM_UNCHECKED
    :: true -> assert(!cancelled && !shut_down); asked = true; waiter = true; armed = true
#else
    :: !cancelled && !shut_down -> asked = true; waiter = true; armed = true
    :: else -> waiter = false
#endif
    fi;
    is_ours = !asked
  }
  if
  :: is_ours -> drop(); atomic { asking_release(); asking_release() }; goto ends
  :: else
  fi;
  if
  :: atomic { started = true; goto end } /* from here on the thread has a share of its own */
  :: true                                /* there is no thread */
  fi;
#ifdef NO_CLAIM_AT_FAILURE
  is_ours = true;
#else
  asking_claim();
#endif
  drop();
  atomic { asking_release() }
  if
  :: is_ours
  :: else -> goto end
  fi;

  ends:
  conclude();
  /* weir__call_hand_over */
  atomic { n_tags++; assert(n_tags == 1); call_release() }
  end:
  begun = true
}

/* ask */
proctype thread() {
  bool is_ours;
  if
  :: started
  :: begun && !started -> goto end
  fi;
  atomic {
    n_messages = 1;
    if
    :: answer_is_hit = true
    :: answer_is_hit = false; n_destroyed++
    fi
  }
  drop();
  /* give_answer */
  asking_claim();
  if
  :: !is_ours ->
#ifndef LATE_STAYS
    atomic {
      if
      :: answer_is_hit -> n_destroyed++
      :: else
      fi
    }
#else
    true
#endif
  :: else ->
    atomic { touch_asking(); has_message = answer_is_hit }
    push_ready()
  fi;
  atomic { asking_release() }
  end:
  skip
}

/* end_waiting of src/call/fallback.c */
inline end_waiting() {
#ifndef NO_ABANDON
  atomic { !asking_locked -> touch_asking(); waiter = false }
#endif
  conclude();
  push_ready()
}

/* fire_due, cancel_with, weir_completion_queue_shutdown: `why` happens, and the timer is taken */
inline take_and_end(why) {
  atomic {
    !queue_locked ->
    why = true;
    was_armed = armed;
    armed = false
  }
  if
  :: was_armed -> end_waiting()
  :: else
  fi
}

proctype timer() {
  bool was_armed;
  if
  :: armed -> take_and_end(due)
  :: quiet
  fi
}

proctype canceller() {
  bool was_armed;
  if
  :: take_and_end(cancelled)
  :: n_tags == 1
  fi;
  atomic { call_release() } /* weir_call_unref */
}

proctype shutter() {
  bool was_armed;
  if
  :: take_and_end(shut_down)
  :: n_tags == 1
  fi
}

/* take_ready, and unary_deliver */
proctype drainer() {
  if
  :: atomic { ready -> ready = false }
  :: quiet -> goto end
  fi;
  if
  :: ended
  :: !ended -> conclude() /* weir__fallback_conclude */
  fi;
  atomic {
    touch_call();
    n_tags++;
    assert(n_tags == 1);
    if
    :: asked && has_message -> touch_asking(); has_message = false; n_handed++ /* weir__fallback_take_message */
    :: else
    fi;
    call_release()
  }
  end:
  skip
}

/* What is left when all is over. */
proctype witness() {
  n_tags == 1 && n_refs == 0 && begun;
  quiet = true;
  n_asking_refs == 0;
  assert(n_concluded == 1 && !armed && !ready && n_places == 0 && n_requests == 0);
  assert(n_handed + n_destroyed == n_messages && !has_message)
}

init {
  atomic {
    run beginner();
    run thread();
    run timer();
    run canceller();
    run shutter();
    run drainer();
    run witness()
  }
}
