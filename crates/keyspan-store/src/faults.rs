//! Tests of the store on a disk that forgets, fails, fills up and rots: what was acknowledged is there, nothing is
//! half there, and no fault gives a wrong answer. `docs/reliability.md` says which promise each of them holds.

mod backup;
mod crashes;
mod damage;
mod errors;
mod fixture;
mod full;
mod repair;
mod simulation;
mod torture;
mod workload;
