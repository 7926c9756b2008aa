//! `Fields` against a plain list of pairs, under random operations.

use fields::Fields;
use proptest::prelude::*;

type Model = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Clone, Debug)]
enum Operation {
    Push(String, String),
    Set(String, String),
    Remove(String),
    RetainShorterThan(usize),
}

fn name() -> impl Strategy<Value = String> {
    // Few names in both letter cases, so that operations often hit the same name.
    "[aAbB]|X-[aA]"
}

fn operation() -> impl Strategy<Value = Operation> {
    let value = "[a-z, \"]{0,6}";
    prop_oneof![
        4 => (name(), value).prop_map(|(name, value)| Operation::Push(name, value)),
        1 => (name(), value).prop_map(|(name, value)| Operation::Set(name, value)),
        1 => name().prop_map(Operation::Remove),
        1 => (0usize..7).prop_map(Operation::RetainShorterThan),
    ]
}

fn apply(operation: &Operation, fields: &mut Fields, model: &mut Model) {
    let pair =
        |name: &String, value: &String| (name.clone().into_bytes(), value.clone().into_bytes());
    match operation {
        Operation::Push(name, value) => {
            fields.push(name.as_bytes(), value.as_bytes());
            model.push(pair(name, value));
        }
        Operation::Set(name, value) => {
            fields.set(name.as_bytes(), value.as_bytes());
            model.retain(|(n, _)| !n.eq_ignore_ascii_case(name.as_bytes()));
            model.push(pair(name, value));
        }
        Operation::Remove(name) => {
            let before = model.len();
            model.retain(|(n, _)| !n.eq_ignore_ascii_case(name.as_bytes()));
            assert_eq!(fields.remove(name.as_bytes()), before - model.len());
        }
        Operation::RetainShorterThan(len) => {
            fields.retain(|_, value| value.len() < *len);
            model.retain(|(_, value)| value.len() < *len);
        }
    }
}

proptest! {
    #[test]
    fn behaves_like_a_list_of_pairs(operations in prop::collection::vec(operation(), 0..40)) {
        let mut fields = Fields::new();
        let mut model = Model::new();
        for operation in &operations {
            apply(operation, &mut fields, &mut model);
            fields.audit().unwrap();
            let lines: Model = fields.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
            prop_assert_eq!(&lines, &model);
            for name in ["a", "B", "x-A", "c"] {
                let of_name: Vec<&[u8]> = model
                    .iter()
                    .filter(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()))
                    .map(|(_, v)| v.as_slice())
                    .collect();
                let name = name.as_bytes();
                prop_assert_eq!(fields.all(name).collect::<Vec<_>>(), of_name.clone());
                prop_assert_eq!(fields.first(name), of_name.first().copied());
                prop_assert_eq!(fields.count(name), of_name.len());
                prop_assert_eq!(fields.contains(name), !of_name.is_empty());
            }
        }
    }

    #[test]
    fn reading_any_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(fields) = Fields::from_wire(&bytes) {
            fields.audit().unwrap();
            prop_assert_eq!(Fields::from_wire(fields.as_wire()), Some(fields));
        }
        for member in fields::split_list(&bytes) {
            prop_assert!(!member.is_empty());
        }
    }
}
